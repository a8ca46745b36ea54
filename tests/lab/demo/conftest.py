"""The browser of the tests of views, for the page of the demo."""

from tests.views.conftest import browser

__all__ = ["browser"]
