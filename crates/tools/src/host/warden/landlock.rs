//! Confinement by Landlock alone, where no namespaces are to be had: what is granted is listed, so
//! around whatever is frozen or hidden the siblings are granted one by one.

use super::{
    layout::sockets,
    named,
    order::{Step, StepKind},
};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The newest rights that this code has been thought through for.
const KNOWN: ABI = ABI::V7;
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Confines this process and all it will start to the bounds.
pub(super) fn confine(bounds: &[Step]) -> io::Result<()> {
    let of_kinds = |kinds: &'static [StepKind]| {
        bounds.iter().filter(|step| kinds.contains(&step.kind)).map(|step| step.path.as_path())
    };
    let hidden: Vec<PathBuf> =
        of_kinds(&[StepKind::HiddenFile, StepKind::HiddenFolder]).map(real).chain(sockets()).collect();
    let frozen = of_kinds(&[StepKind::Frozen]);
    let frozen: Vec<PathBuf> =
        frozen.flat_map(|path| links_on(path).chain([real(path)])).chain(hidden.iter().cloned()).collect();
    let mut rules = Rules { ruleset: Some(ruleset(CompatLevel::BestEffort)?) };
    let read = AccessFs::ReadFile | AccessFs::Execute;
    // Names can be listed everywhere: the right could not be given for a folder without its subfolders.
    rules.grant(Path::new("/"), AccessFs::ReadDir.into())?;
    carve(Path::new("/"), &hidden, &mut |path| rules.grant(path, read))?;
    for root in of_kinds(&[StepKind::Writable]).map(real) {
        carve(&root, &frozen, &mut |path| rules.grant(path, AccessFs::from_all(KNOWN)))?;
    }
    for device in DEVICES.iter().map(Path::new) {
        rules.grant(device, AccessFs::WriteFile | AccessFs::IoctlDev)?;
    }
    rules.enforce()
}

/// Keeps this process from looking into, signalling and talking to processes outside, and no more.
pub(super) fn separate() {
    // Making a block device is refused by other means; some right must be handled.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::MakeBlock)
        .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    // A second wall behind the namespaces, which stand without it.
    drop(ruleset);
}

struct Rules {
    ruleset: Option<RulesetCreated>,
}

impl Rules {
    fn grant(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        // What cannot be opened cannot be used either.
        let Ok(descriptor) = PathFd::new(path) else { return Ok(()) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
        let Some(ruleset) = self.ruleset.take() else { return Ok(()) };
        let ruleset = ruleset
            .add_rule(PathBeneath::new(descriptor, access))
            .map_err(|error| named("grant", path, &io::Error::other(error)))?;
        self.ruleset = Some(ruleset);
        Ok(())
    }

    fn enforce(self) -> io::Result<()> {
        let Some(ruleset) = self.ruleset else { return Err(io::Error::other("the rules are gone")) };
        let status = ruleset.restrict_self().map_err(io::Error::other)?;
        match (status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, _) => Err(io::Error::other("this kernel has no landlock")),
            // Before the third version, truncating a file was not a right of its own.
            (_, LandlockStatus::Available { effective_abi, .. }) if effective_abi < ABI::V3 => {
                Err(io::Error::other("this kernel's landlock does not cover truncation"))
            }
            (_, _) => Ok(()),
        }
    }
}

fn ruleset(level: CompatLevel) -> io::Result<RulesetCreated> {
    Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)
}

/// Grants a tree without some paths in it: whole where none is inside, else child by child.
fn carve(path: &Path, without: &[PathBuf], grant: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if without.iter().any(|excluded| path.starts_with(excluded)) {
        return Ok(());
    }
    if !without.iter().any(|excluded| excluded.starts_with(path)) {
        return grant(path);
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
    for entry in entries.flatten() {
        // A link grants nothing; what it leads to is granted, or not, where it stands.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            carve(&entry.path(), without, grant)?;
        }
    }
    Ok(())
}

/// The symbolic links on the way to a path: who could replace one would choose where the path leads.
fn links_on(path: &Path) -> impl Iterator<Item = PathBuf> {
    let links = path.ancestors().filter(|on_the_way| on_the_way.is_symlink());
    links.filter_map(|link| Some(real(link.parent()?).join(link.file_name()?)))
}

/// Where a path leads, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        (_, _) => path.to_owned(),
    }
}
