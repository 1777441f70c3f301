"""What everything stands on: places in source text and errors, options, locks, what torch does not document."""
