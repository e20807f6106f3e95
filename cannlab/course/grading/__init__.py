"""The instructor's side: many submissions graded from outside, with reports, exports and hashes."""
