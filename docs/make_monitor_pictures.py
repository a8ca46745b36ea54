"""The picture and the table of docs/integrations/monitor.md: a small Llama learns bytes of WikiText-2 and is watched.

    REGARD_DATA=... python docs/make_monitor_pictures.py

At step 600 the learning rate is raised a hundredfold, as a mistyped configuration would.
"""

import gzip
import os
import warnings
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright
from transformers import LlamaConfig, LlamaForCausalLM

import regard

STEPS, WRONG, TOKENS, BATCH = 800, 600, 64, 8
IMAGES = Path(__file__).parent / "images"


def texts() -> torch.Tensor:
    """Bytes of the valid part."""
    folder = Path(os.environ["REGARD_DATA"]) / "text"
    with gzip.open(next(folder.glob("wikitext2_valid*.txt.gz"))) as file:
        return torch.tensor(list(file.read(400_000)))


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128
    )
    model, line = LlamaForCausalLM(config), texts()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warnings.simplefilter("default")
    with regard.Monitor(model, every=10, serve=True) as monitor:
        for step in range(STEPS):
            if step == WRONG:
                optimiser.param_groups[0]["lr"] = 0.2
            start = torch.randint(0, len(line) - TOKENS, (BATCH, 1))
            ids = line[start + torch.arange(TOKENS)]
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            if step % 100 == 0:
                print(step, f"{float(loss.detach()):.2f}", flush=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.goto(monitor.url)
            page.wait_for_selector("svg")
            page.screenshot(path=IMAGES / "monitor.png", full_page=True)
            browser.close()


if __name__ == "__main__":
    main()
