"""One file a page: get, call core, draw."""
