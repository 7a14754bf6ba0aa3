"""Constants of the transport ``adaptive_swift``, found by evolution in company of other laws."""
