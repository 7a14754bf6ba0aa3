"""Several jobs on one system: their draws, their links, and how much they slow each other down."""
