"""What users hold: script functions, script modules, containers."""
