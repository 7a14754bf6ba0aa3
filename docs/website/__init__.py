"""Documentation site: pages made from docs/ and from what the package declares, built by Sphinx.

``python -m docs.website`` (``make docs``) writes the pages' sources to ``build/docs/source``, lets Sphinx
build ``build/docs/html``, and checks the result. No generated page is committed.
"""
