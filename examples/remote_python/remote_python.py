#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A matrix product, a fused chain, a graph that is kept and run again, and an error, on a server of Kiln.

    kiln serve --listen 127.0.0.1:3000 &
    examples/remote_python/remote_python.py 127.0.0.1:3000
"""
import os
import sys

from kiln_client import GraphBuilder, RemoteError, Session


def matmul(session):
    a = session.write([1, 2, 3, 4, 5, 6])
    b = session.write([1, 0, 0, 1, 1, 1])
    build = GraphBuilder(session)
    x, y = build.input([2, 3]), build.input([3, 2])
    z = build.output(build.op("matmul", [x, y], [2, 2], transpose_a=False, transpose_b=False))
    c = session.new_buffer()
    session.run(build.graph, [(x, a), (y, b)], [(z, c)])
    assert session.read(c, 4) == [4, 5, 10, 11], session.read(c, 4)
    session.free(a, b, c)
    return "a matrix product"


def chain(session):
    """Only the end of the chain is in a buffer: the server never writes the rest to memory."""
    values = [-2.0, -1.0, 0.5, 3.0]
    a = session.write(values)
    build = GraphBuilder(session)
    x = build.input([4])
    t = build.op("mul_scalar", [x], [4], value=3.0)
    t = build.op("add_scalar", [t], [4], value=1.0)
    t = build.op("relu", [t], [4])
    end = build.output(build.op("mul", [t, x], [4]))
    c = session.new_buffer()
    session.run(build.graph, [(x, a)], [(end, c)])
    got = session.read(c, 4)
    assert got == [max(3 * v + 1, 0) * v for v in values], got
    return "a fused chain"


def graph(session):
    """The graph travels once; later runs name its number, with other buffers."""
    build = GraphBuilder(session)
    x, y = build.input([3]), build.input([3])
    z = build.output(build.op("add", [x, y], [3]))
    total = session.write([0, 0, 0])
    session.run(build.graph, [(x, total), (y, session.write([1, 2, 3]))], [(z, total)], number=1)
    for _ in range(9):
        session.run(None, [(x, total), (y, session.write([1, 2, 3]))], [(z, total)], number=1)
    assert session.read(total, 3) == [10, 20, 30], session.read(total, 3)
    return "a graph run ten times"


def error(session):
    """Work is not answered: its failure comes with the next answer, once, and names the frame."""
    build = GraphBuilder(session)
    x = build.input([2])
    z = build.output(build.op("no_such_operator", [x], [2]))
    c = session.new_buffer()
    session.run(build.graph, [(x, session.write([1, 2]))], [(z, c)])
    failed = session.frames
    for expected in (failed, None):
        try:
            session.fence()
            assert expected is None, "the failure was not told"
        except RemoteError as told:
            assert expected == told.frame and "no_such_operator" in str(told), (told, told.frame, expected)
    try:
        session.read(c, 2)
        assert False, "a buffer that failed work should have filled was read"
    except RemoteError as told:
        assert "no_such_operator" in str(told), told
    assert chain(session)
    return "an error, and the session goes on"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    session = Session(root, sys.argv[1])
    info = session.info()
    print(f"{info.server}: {info.devices[0].name}, {len(info.operators)} operators")
    for part in (matmul, chain, graph, error):
        print(f"  {part(session)}")
    session.close()


if __name__ == "__main__":
    main()
