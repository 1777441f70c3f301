"""Python source that needs no jitlite."""
