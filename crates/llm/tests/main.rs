//! Everything that `choir-llm` promises to those who call it.
