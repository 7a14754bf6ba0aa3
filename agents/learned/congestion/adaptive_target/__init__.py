"""Constants of the transport ``adaptive_target``, found by evolution in company of other laws."""
