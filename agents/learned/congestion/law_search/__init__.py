"""Search for the constants of laws in company: `adaptive_target`, `adaptive_swift` and `tuned_swift`."""
