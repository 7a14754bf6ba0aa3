"""Constants of the transport ``adaptive_swift``, found by evolution in networks shared with other laws."""
