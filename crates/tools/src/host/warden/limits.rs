//! What a confined process gives up for good: capabilities, new privileges, and resources past a bound.
//! Only ever lowers; rights within namespaces of its own are kept until they are furnished.

use super::named;
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};
use std::{io, path::Path};

/// How many processes and threads a command may have.
pub(super) const MOST_PROCESSES: usize = 4096;
const GIB: u64 = 1 << 30;
/// Memory that a process may write; reserved address space, of which some runtimes take terabytes, is free.
const MOST_MEMORY: u64 = 8 * GIB;
const LARGEST_FILE: u64 = 10 * GIB;
const MOST_FILES: u64 = 65_536;

/// Lowers the limits of this process and of all it will start.
pub(super) fn lower() -> io::Result<()> {
    // Counted for each user, so what others of his programs run is added.
    let running = u64::from(rustix::system::sysinfo().procs);
    for (resource, most) in [
        (Resource::Nproc, running + MOST_PROCESSES as u64),
        (Resource::Data, MOST_MEMORY),
        (Resource::Fsize, LARGEST_FILE),
        (Resource::Nofile, MOST_FILES),
        (Resource::Core, 0),
    ] {
        let now = getrlimit(resource);
        let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) })
            .map_err(|error| named("set the limits of", Path::new("the command"), &error.into()))?;
    }
    Ok(())
}

/// Keeps the rights over new namespaces through the start of the next stage, which for all users but
/// root would lose them.
pub(super) fn keep_rights_inside() -> io::Result<()> {
    let needed = [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::SETPCAP];
    let now = capabilities(None)?;
    let inheritable = now.inheritable | needed.into_iter().collect();
    set_capabilities(None, CapabilitySets { inheritable, ..now })?;
    for capability in needed {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Gives up every capability, also those that a program could bring.
pub(super) fn drop_privileges() -> io::Result<()> {
    set_no_new_privs(true)?;
    for capability in CapabilitySet::all().iter() {
        // One that the kernel does not know, or no right to drop it: then there is none to gain
        // either, for `no_new_privs` is set.
        let _ = remove_capability_from_bounding_set(capability);
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
