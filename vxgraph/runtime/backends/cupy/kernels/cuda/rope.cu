// Each pair turned by position * frequency: a thread for a pair. HALF_TURNS[i] is pair i's frequency over pi, in f64; whole
// turns are taken off in f64 before the angle becomes a float, so that position 131071 is as exact as position 1.

extern "C" __global__ void __launch_bounds__(128) vx_rope(
    const T* __restrict__ x, const Position* __restrict__ positions, T* __restrict__ out, i64 rows, int heads) {
  const i64 at = thread_of_grid();
  const int pair = (int)(at % PAIRS);
  const i64 head = at / PAIRS, row = head / heads;
  if (row >= rows) return;
  double angle = (double)positions[row] * HALF_TURNS[pair];
  angle -= 2.0 * rint(0.5 * angle);
  float sine, cosine;
  sincospif((float)angle, &sine, &cosine);
  const i64 first = head * 2 * PAIRS + (INTERLEAVED ? 2 * pair : pair), second = first + (INTERLEAVED ? 1 : PAIRS);
  const float a = wide(x[first]), b = wide(x[second]);
  out[first] = narrow<T>(a * cosine - b * sine);
  out[second] = narrow<T>(a * sine + b * cosine);
}
