//! What proto does to text, seen from outside: hostile and honest texts, and laws that hold for all.

mod honest;
mod hostile;
mod laws;
mod secrets;
mod wrapping;
