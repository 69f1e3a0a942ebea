"""Names that break what is careless: for every place where one is shown."""

HELL = (
    "</script><b>&amp;\"'",
    "a:b|{c}\\n<br/>",
    "<!-- \u2028 ]]> -->",
    "日本語 🜁 e\u0301 \u202eright",
    "\x07\x1b[31mred",
    "%s{0}$HOME`id`",
    "x" * 300,
)
