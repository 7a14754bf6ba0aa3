"""Constants of the transport ``adaptive_target``, found by evolution in networks shared with other laws."""
