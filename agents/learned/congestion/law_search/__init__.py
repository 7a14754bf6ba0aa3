"""Search for the constants of a law in company of other laws: of `adaptive_target` and of `tuned_swift`."""
