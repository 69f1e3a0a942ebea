"""Every pair of memories is routed and priced, or refused with the link that is missing."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import pytest

from vxgraph.errors import MachineError
from vxgraph.topology.ids import CPU, GPU, Topology
from vxgraph.topology.load import load_machine, shipped_machines
from vxgraph.topology.model import Device, Link, Machine, Memory
from vxgraph.topology.routes import Router


def machine(*links: Link, gpus: int = 2) -> Machine:
    """`host` and `m0`, `m1`, ... with the given links; every memory moves 100 bytes per second."""
    names = ["host", *(f"m{index}" for index in range(gpus))]
    places = [CPU[0], *(GPU[index] for index in range(gpus))]
    return Machine(
        name="box",
        source="box.toml",
        host="host",
        devices=tuple(Device(place, name, (name,), {}) for place, name in zip(places, names, strict=True)),
        memories=tuple(Memory(name, 1000, 100.0, 1, 0) for name in names),
        links=links,
        origins={},
    )


def fast(src: str, dst: str) -> Link:
    return Link(src, dst, bandwidth=1e9, latency=1e-6)


def slow(src: str, dst: str) -> Link:
    return Link(src, dst, bandwidth=1e6, latency=1e-6)


def test_nvlink_is_a_direct_route():
    route = Router(load_machine("h200-x2")).route(GPU[0], GPU[1])
    assert (route.kind, str(route)) == ("direct", "hbm0 > hbm1")
    assert route.seconds(450_000_000) == pytest.approx(3e-6 + 1e-3)


def test_without_a_peer_path_a_transfer_is_staged_through_the_host_and_priced_as_two():
    route = Router(load_machine("rtx4090-x2")).route(GPU[0], GPU[1])
    assert (route.kind, str(route), route.memories) == ("staged", "vram0 > host > vram1", ("vram0", "host", "vram1"))
    assert route.seconds(32_000_000) == pytest.approx(2 * (8e-6 + 1e-3))
    assert [(hop.src, hop.dst) for hop in route.hops] == [("vram0", "host"), ("host", "vram1")]


def test_a_copy_within_a_memory_is_local_and_pays_for_reading_and_writing():
    route = Router(machine()).route(GPU[0], GPU[0])
    assert (route.kind, str(route), route.hops, route.seconds(50)) == ("local", "m0", (), 1.0)


def test_the_caller_is_in_the_host_memory():
    router = Router(load_machine("h200"))
    assert [str(router.route(None, GPU[0])), str(router.route(GPU[0], None))] == ["host > hbm0", "hbm0 > host"]
    assert router.route(None, CPU[0]).kind == "local"


def test_a_way_round_is_taken_where_it_is_cheaper_than_a_slow_direct_link():
    box = machine(slow("m0", "m1"), fast("m0", "host"), fast("host", "m1"))
    assert str(Router(box).route(GPU[0], GPU[1])) == "m0 > host > m1"


def test_routes_follow_the_direction_of_links():
    box = machine(fast("m0", "m1"), fast("m1", "host"), fast("host", "m0"))
    router = Router(box)
    assert [router.route(GPU[0], GPU[1]).kind, router.route(GPU[1], GPU[0]).kind] == ["direct", "staged"]


def test_equally_cheap_ways_are_settled_by_name_whatever_the_order_of_the_file():
    links = [fast("m0", "m2"), fast("m0", "m1"), fast("m0", "host")]
    links += [fast("m2", "m3"), fast("m1", "m3"), fast("host", "m3")]
    found = {str(Router(machine(*order, gpus=4)).route(GPU[0], GPU[3])) for order in permutations(links)}
    assert found == {"m0 > host > m3"}


def test_a_route_is_found_once():
    router = Router(load_machine("cpu-x8"))
    assert router.route(CPU[0], CPU[7]) is router.route(CPU[0], CPU[7])


@pytest.mark.parametrize("name", shipped_machines())
def test_every_pair_of_every_shipped_machine_has_a_route(name: str):
    box = load_machine(name)
    router = Router(box)
    for src in (None, *box.topologies):
        for dst in (None, *box.topologies):
            assert router.route(src, dst).memories[-1] == box.memory_of(dst).name


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        (
            GPU[0],
            GPU[1],
            "box: no path from gpu:0 to gpu:1: box.toml has no [[link]] from m0 to m1, nor a way round\n"
            "  links from m0 lead to: host\n"
            "  links to m1 come from: nothing",
        ),
        (
            CPU[0],
            GPU[0],
            "box: no path from cpu:0 to gpu:0: box.toml has no [[link]] from host to m0, nor a way round\n"
            "  links from host lead to: nothing\n"
            "  links to m0 come from: nothing",
        ),
        (
            None,
            GPU[1],
            "box: no path from the caller to gpu:1: box.toml has no [[link]] from host to m1, nor a way round\n"
            "  links from host lead to: nothing\n"
            "  links to m1 come from: nothing",
        ),
    ],
)
def test_a_pair_without_a_path_is_refused_with_the_link_that_is_missing(
    src: Topology | None, dst: Topology | None, message: str
):
    with pytest.raises(MachineError) as error:
        Router(machine(fast("m0", "host"))).route(src, dst)
    assert str(error.value) == message


def test_a_topology_that_the_machine_lacks_is_refused():
    with pytest.raises(MachineError) as error:
        Router(machine()).route(GPU[0], GPU[5])
    assert str(error.value) == "box has no gpu:5; it has cpu:0, gpu:0, gpu:1 (box.toml)"


def test_networkx_is_loaded_by_the_first_route_and_not_before():
    code = (
        "import sys\nfrom vxgraph.topology.ids import GPU\nfrom vxgraph.topology.load import load_machine\n"
        "from vxgraph.topology.routes import Router\n"
        "router = Router(load_machine('h200-x2')); print('networkx' in sys.modules)\n"
        "router.route(GPU[0], GPU[1]); print('networkx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
