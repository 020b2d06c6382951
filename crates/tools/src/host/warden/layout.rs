//! Turns bounds into steps: which paths are bound, pinned, frozen and covered, in which order. It looks at
//! the disk and puts placeholders where protected names are absent; mounting is left to others.

use super::{
    named,
    order::{Reach, Step, StepKind},
    placeholder::{Placeholder, is_placeholder},
};
use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
};

/// Folders full of other programs' sockets; each shows up empty.
pub(super) const COVERED: [&str; 2] = ["/run", "/var/run"];
/// What programs need of them all the same.
const SHOWN: [&str; 3] = ["/run/current-system", "/run/booted-system", "/run/opengl-driver"];
/// As the kernel.
const MAX_LINKS: usize = 40;

/// What is to be done, and what stands on the disk as long as it is needed.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) steps: Vec<Step>,
    placeholders: Vec<Placeholder>,
}

/// Lays out bounds, whose paths need neither exist nor be free of links.
pub(super) fn lay_out(bounds: &[Step], network: Reach) -> io::Result<Layout> {
    let mut layout = Layout::default();
    let of_kind = |kinds: &'static [StepKind]| bounds.iter().filter(|step| kinds.contains(&step.kind));
    for step in of_kind(&[StepKind::HiddenFile, StepKind::HiddenFolder]) {
        layout.hide(&step.path);
    }
    for socket in sockets() {
        layout.hide(&socket);
    }
    for step in of_kind(&[StepKind::Writable]) {
        layout.make_writable(&step.path)?;
    }
    let mut frozen: Vec<&Path> = of_kind(&[StepKind::Frozen]).map(|step| step.path.as_path()).collect();
    frozen.sort_by_key(|path| path.components().count());
    for path in frozen {
        layout.freeze(path)?;
    }
    layout.show(network);
    layout.put_in_order();
    Ok(layout)
}

impl Layout {
    /// Covers a path, wherever it leads; one that is not there has nothing to hide.
    fn hide(&mut self, path: &Path) {
        let Ok(path) = path.canonicalize() else { return };
        if COVERED.iter().any(|covered| path.starts_with(covered)) {
            return;
        }
        self.add(if path.is_dir() { StepKind::HiddenFolder } else { StepKind::HiddenFile }, path);
    }

    fn make_writable(&mut self, path: &Path) -> io::Result<()> {
        // One that is not there cannot be written to; making it is the harness's business.
        let Ok(path) = path.canonicalize() else { return Ok(()) };
        if path == Path::new("/") {
            return Err(io::Error::other("the whole file system cannot be made writable"));
        }
        self.add(StepKind::Writable, path);
        Ok(())
    }

    /// Freezes what stands at a path, and pins everything on the way there that could be moved away
    /// to make room for something else. Where nothing stands, a placeholder is put and frozen.
    fn freeze(&mut self, path: &Path) -> io::Result<()> {
        let mut pending = names(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let metadata = match next.symlink_metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return self.block(next),
                // What this process cannot even look at, the command cannot write.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
                Err(error) => return Err(named("protect", &next, &error)),
            };
            if metadata.is_symlink() {
                self.pin(next.clone());
                links += 1;
                if links > MAX_LINKS {
                    return Err(named("protect", path, &io::Error::other("too many symbolic links")));
                }
                let target = std::fs::read_link(&next).map_err(|error| named("read", &next, &error))?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let rest = std::mem::replace(&mut pending, names(&target));
                pending.extend(rest);
            } else if is_placeholder(&next, &metadata) {
                return self.block(next);
            } else if pending.is_empty() || !metadata.is_dir() {
                if self.is_writable(&next) {
                    self.add(StepKind::Frozen, next);
                }
                return Ok(());
            } else {
                self.pin(next.clone());
                at = next;
            }
        }
        Ok(())
    }

    /// Keeps a name that is not there from being made.
    fn block(&mut self, path: PathBuf) -> io::Result<()> {
        if self.is_writable(&path)
            && let Some(placeholder) = Placeholder::put(&path)?
        {
            self.placeholders.push(placeholder);
            self.add(StepKind::Frozen, path);
        }
        Ok(())
    }

    fn pin(&mut self, path: PathBuf) {
        // A writable root is a mount already, and what is around it is not writable.
        if self.is_writable(&path) && !self.of(StepKind::Writable).any(|root| root == path) {
            self.add(StepKind::Pinned, path);
        }
    }

    /// Whether the command could change what stands at a path, so far.
    fn is_writable(&self, path: &Path) -> bool {
        let around = self.steps.iter().filter(|step| path.starts_with(&step.path));
        let deciding = around.filter(|step| step.kind != StepKind::Pinned && step.kind != StepKind::Shown);
        let nearest = deciding.max_by_key(|step| (step.path.components().count(), step.kind));
        nearest.is_some_and(|step| step.kind == StepKind::Writable)
    }

    fn show(&mut self, network: Reach) {
        let resolver = match network {
            Reach::Cut => None,
            Reach::Open => Path::new("/etc/resolv.conf").canonicalize().ok(),
        };
        let resolver = resolver.filter(|path| COVERED.iter().any(|covered| path.starts_with(covered)));
        let present = SHOWN.iter().map(PathBuf::from).filter(|path| path.exists());
        present.chain(resolver).for_each(|path| self.add(StepKind::Shown, path));
    }

    /// Outer paths first; nothing below what is hidden.
    fn put_in_order(&mut self) {
        let hidden: Vec<PathBuf> = self.of(StepKind::HiddenFolder).map(Path::to_owned).collect();
        self.steps
            .retain(|step| !hidden.iter().any(|path| step.path.starts_with(path) && step.path != *path));
        let rank = |step: &Step| (step.path.components().count(), step.kind, step.path.clone());
        self.steps.sort_by_cached_key(rank);
        self.steps.dedup();
    }

    fn add(&mut self, kind: StepKind, path: PathBuf) {
        self.steps.push(Step { kind, path });
    }

    fn of(&self, kind: StepKind) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter(move |step| step.kind == kind).map(|step| step.path.as_path())
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(named).collect()
}

/// The sockets that programs of this machine listen on under a name: an agent, a display, a terminal
/// multiplexer. Whoever can connect to one acts with that program's rights.
#[expect(clippy::disallowed_methods, reason = "the table of sockets is read where they are hidden")]
pub(super) fn sockets() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    let paths = table.lines().skip(1).filter_map(|line| Some(Path::new(line.get(line.find(" /")? + 1..)?)));
    let bound = paths.filter(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()));
    bound.map(Path::to_owned).collect()
}
