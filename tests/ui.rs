//! Mistakes in attributes are compile errors at the wrong word.
