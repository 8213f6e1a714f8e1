//! Rules of the repository: for its text, its licences, its tests and the steps of its checks.

mod arrows;
mod checks;
mod documents;
mod house;
mod licences;
mod limits;
mod names;
mod pages;
