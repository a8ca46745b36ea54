"""The live page of a monitor: what it shows, and to whom."""

import http.cookiejar
import urllib.error
import urllib.request

import pytest
import torch
from torch import nn

import regard

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleDict({"<b>": nn.MultiheadAttention(8, 2, batch_first=True)})

    def forward(self, x):
        return self.blocks["<b>"](x, x, x, need_weights=False)[0]


def status(opener, url, **headers):
    try:
        return opener.open(urllib.request.Request(url, headers=headers)).status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_shows_the_run_to_whoever_has_the_token_and_to_nobody_else(capsys):
    torch.manual_seed(0)
    model = Model()
    with regard.Monitor(model, every=1, rows=4, serve=True, table=False, watch=False) as monitor:
        address, host = monitor.url.split("/?")[0], monitor.url.split("/")[2]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        stranger = urllib.request.build_opener()
        assert address in capsys.readouterr().err and host.startswith("127.0.0.1:")
        assert browser.open(monitor.url).headers["content-security-policy"].startswith("default-src 'none'")
        content = browser.open(f"{address}/api/monitor").read().decode()
        assert "The first step has not ended yet" in content
        for _ in range(2):
            model(torch.randn(2, 5, 8)).sum().backward()
            monitor.step()
        content = browser.open(f"{address}/api/monitor").read().decode()
        assert "step 1, 2 steps looked at" in content and content.count("<polyline") >= 5
        assert "blocks.&lt;b&gt;" in content and "<b>" not in content
        entropy = float(monitor.latest.sites["blocks.<b>"].relative[0])
        assert f">{entropy:.3g}</td>" in content
        for path in ("/", "/api/monitor", "/monitor.js"):
            assert status(stranger, address + path) == 403
        assert status(browser, f"{address}/api/monitor", Host="example.org") == 403
    with pytest.raises(urllib.error.URLError):
        browser.open(f"{address}/api/monitor")
    assert monitor.url == ""
