import collections
def test_all():
    from tests.nn.test_wrong_calls import CALLS
    from tests.core.wrong_calls import verdict
    bad = collections.OrderedDict()
    for c, a, v in CALLS:
        w = verdict(c, a, v)
        if w: bad[(c.name, a, v)] = w
    with open("/tmp/wc/out_nn.txt", "w") as f:
        f.write(f"{len(bad)} of {len(CALLS)}\n")
        for k, w in bad.items(): f.write(f"{k} {w[:170]!r}\n")
