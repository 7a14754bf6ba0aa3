"""Study of random links: how the flows of a law share links, with each other and with those of other laws."""
