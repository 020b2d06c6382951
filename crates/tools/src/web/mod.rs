//! Fetches pages for the model: one address, checked and dialled as the same bytes. Redirects to
//! other hosts are told, never followed; nothing on this machine or its network is reached.

mod address;
mod page;

pub use address::{Refused, check};
pub use page::{Fetched, Fetcher, WebError};

/// What a fetcher may reach beside the public network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Hosts, as `host` or `host:port`, that the user has named although they are not public.
    pub private: Vec<String>,
}
