"""Reading archives."""
