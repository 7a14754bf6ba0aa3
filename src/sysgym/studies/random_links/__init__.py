"""Study of random links: sharing of links among the flows of a law, and with flows of other laws."""
