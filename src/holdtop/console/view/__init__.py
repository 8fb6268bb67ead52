"""What the console shows, as lines of coloured words, derived purely from a snapshot: no Textual in here."""
