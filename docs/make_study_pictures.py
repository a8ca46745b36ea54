"""The pictures of docs/studies: python docs/make_study_pictures.py <folder of the study quick> [folder]."""

import io
import shutil
import sys
from pathlib import Path

from make_terminal_pictures import photograph
from playwright.sync_api import sync_playwright
from rich.console import Console

from regard.cli.output.study_tables import result_tables
from regard.studies import Study
from regard.studies.aggregate import collect
from regard.studies.run_study import store_of

FOLDER = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent / "images" / "studies")


def terminal(width: int) -> Console:
    return Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    store = store_of(Path(sys.argv[1]))
    results = collect(store, Study.model_validate(store.specification(store.names()[0])))
    store.close()
    console = terminal(136)
    for one in result_tables(results, console.width):
        console.print(one, highlight=False)
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        photograph(browser, console, "regard study report quick-study", FOLDER / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
