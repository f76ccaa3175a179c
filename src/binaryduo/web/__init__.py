"""Packed models in the browser: the npm package (`npm/`), and a page that shows one at work."""
