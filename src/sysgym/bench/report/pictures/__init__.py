"""Pictures of a report, each drawn for the page (SVG) and as a file (PNG)."""
