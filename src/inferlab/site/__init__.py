"""The documentation site: what pages call, how it is built, and how the built pages are checked."""
