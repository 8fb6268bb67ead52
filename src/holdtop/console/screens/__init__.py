"""The screens: the live one, the dialog of an act, the log and the help on the full screen."""
