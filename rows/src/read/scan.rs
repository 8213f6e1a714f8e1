//! Scans: the rows of a range as batches of columns.
