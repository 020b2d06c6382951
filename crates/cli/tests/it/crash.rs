//! Nothing that was seen is lost and nothing runs twice, however a process ends, whatever happens to its file,
//! and whoever else works beside it.

mod damage;
mod duel;
mod kill;
mod story;
mod together;
