"""Search for the constants of `adaptive_target`, `adaptive_swift` and `tuned_swift` beside other laws."""
