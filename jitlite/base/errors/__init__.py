"""The kinds of errors, each declared once: its code, what it means, a program that has it and one that does not."""
