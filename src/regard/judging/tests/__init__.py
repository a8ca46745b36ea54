"""The tests of the suite, one a file. A file enlists by lying in this folder."""
