//! Attempts to get out of the sandbox, each one for every way to confine that this machine has.

mod frozen;
mod network;

use crate::cage::{Cage, cages};
use ostler_tools::host::Backend;
use std::path::Path;

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

#[test]
fn the_project_can_be_worked_in() {
    for cage in cages() {
        cage.allows("echo hi > src/a && mkdir -p deep/er && mv src/a deep/er/b && cat deep/er/b");
        cage.allows("ln deep/er/b deep/er/c && ln -s b deep/er/d && cat deep/er/d && rm -r deep");
        cage.allows("cat $OUTSIDE/file && echo x > /dev/null && head -c1 /dev/urandom | wc -c");
        let ran = cage.allows("cat <(echo via-dev-fd); echo $OSTLER $PWD; exec -a name true");
        assert_eq!(ran.output, format!("via-dev-fd\n1 {}\n", cage.project.display()));
    }
}

#[test]
fn how_a_command_ends_comes_out_unchanged() {
    for cage in cages() {
        for (command, code) in
            [("exit 0", 0), ("exit 3", 3), ("exit 125", 125), ("kill -9 $$", 137), ("kill $$", 143)]
        {
            assert_eq!(cage.run(command).code, code, "{}: {command}", cage.backend);
        }
        let missing = ostler_tools::host::process::start(ostler_tools::host::process::Launch {
            program: "/no/such/program".as_ref(),
            args: Vec::new(),
            cwd: &cage.project,
            env: &[],
            stdio: [std::process::Stdio::null(), std::process::Stdio::null(), std::process::Stdio::null()],
            confinement: &ostler_tools::host::Confinement::Within(cage.bounds.clone()),
            warden: Some(&cage.warden),
        });
        let error = missing.and_then(crate::cage::finish).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", cage.backend);
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}

#[test]
fn nothing_outside_can_be_written() {
    for cage in cages() {
        for attempt in [
            "echo x > $OUTSIDE/file",
            "echo x > $OUTSIDE/new",
            "echo x >> $OUTSIDE/file",
            "truncate -s 0 $OUTSIDE/file",
            "rm $OUTSIDE/file",
            "mv $OUTSIDE/file src/stolen",
            "mv $OUTSIDE $OUTSIDE.gone",
            "mkdir $OUTSIDE/folder",
            "chmod 777 $OUTSIDE/file && test $(stat -c %a $OUTSIDE/file) = 777",
            "touch -d 2001-01-01 $OUTSIDE/file && test $(stat -c %Y $OUTSIDE/file) -lt 1000000000",
            "ln -s $OUTSIDE/file src/link; echo x > src/link",
            "ln -s $OUTSIDE src/folder; echo x > src/folder/new",
            "ln $OUTSIDE/file src/hard && echo x > src/hard",
            "echo x > ../outside/file",
            "cd /proc/self/cwd/../outside && echo x > file",
            "echo x > /proc/self/root$OUTSIDE/file",
            "echo x > /proc/1/root$OUTSIDE/file",
            "echo x > /proc/$PPID/root$OUTSIDE/file",
            "echo x > src/f && mv src/f $OUTSIDE/file",
            "touch /etc/ostler-was-here",
            "touch /usr/bin/ostler-was-here",
            "touch /tmp/ostler-was-here",
            "touch /var/tmp/ostler-was-here",
            "touch ~root/ostler-was-here",
            // Only opened, in case it can be.
            "exec 3>> /proc/sys/kernel/core_pattern",
            "exec 3>> /proc/sys/vm/overcommit_memory",
            "exec 3>> /proc/sysrq-trigger",
            "exec 3>> /proc/self/uid_map",
            "mkdir /sys/fs/cgroup/ostler-was-here || mkdir /sys/fs/cgroup/pids/ostler-was-here",
            "exec 3>> /dev/kmsg",
            "head -c1 /dev/mem || head -c1 /dev/vda || head -c1 /dev/sda || head -c1 /dev/kmsg",
        ] {
            if cage.backend == Backend::Landlock && is_no_matter_of_landlock(attempt) {
                continue;
            }
            cage.refuses(attempt);
        }
        let left = std::fs::read_dir(&cage.outside).unwrap().count();
        assert_eq!((std::fs::read(cage.outside.join("file")).unwrap(), left), (b"outside".to_vec(), 2));
    }
}

/// Landlock has no right for a file's attributes, and lets devices be read like files; the former
/// costs no content, and the latter needs rights that a user does not have.
fn is_no_matter_of_landlock(attempt: &str) -> bool {
    attempt.starts_with("chmod") || attempt.starts_with("touch -d") || attempt.contains("/dev/mem")
}

#[test]
fn what_is_hidden_cannot_be_read() {
    for mut cage in cages() {
        std::fs::create_dir(cage.outside.join("keys")).unwrap();
        std::fs::write(cage.outside.join("keys/id"), "s3cr3t").unwrap();
        std::fs::create_dir(cage.project.join("private")).unwrap();
        std::fs::write(cage.project.join("private/note"), "s3cr3t").unwrap();
        cage.bounds.hidden.extend([
            cage.outside.join("keys"),
            cage.project.join("private"),
            cage.outside.join("absent"),
        ]);
        for attempt in [
            "cat $OUTSIDE/secret",
            "cat $OUTSIDE/keys/id",
            "ln -s $OUTSIDE/secret src/link; cat src/link",
            "ln $OUTSIDE/secret src/hard; cat src/hard",
            "cat /proc/self/root$OUTSIDE/secret",
            "cp -r $OUTSIDE src/copy; cat src/copy/secret src/copy/keys/id",
            "mv private shown; cat shown/note private/note",
            "rm -rf private; cat private/note",
            "cat private/note",
        ] {
            let ran = cage.run(attempt);
            assert!(!ran.output.contains("s3cr3t"), "{}: {attempt}: {ran:?}", cage.backend);
        }
        assert_eq!(std::fs::read(cage.project.join("private/note")).unwrap(), b"s3cr3t");
    }
}

#[test]
fn the_environment_of_other_processes_is_out_of_sight() {
    for cage in cages() {
        let harness = std::process::id();
        assert!(Path::new(&format!("/proc/{harness}/environ")).exists());
        // Every test runner sets this for the process that runs the tests.
        let command = format!("cat /proc/{harness}/environ /proc/[0-9]*/environ | tr '\\0' '\\n'; true");
        let ran = cage.allows(&command);
        assert!(!ran.output.contains("CARGO_MANIFEST_DIR"), "{}: {}", cage.backend, ran.output);
        cage.refuses("tr '\\0' '\\n' < /proc/1/environ");
    }
}

#[test]
fn processes_outside_cannot_be_signalled() {
    for cage in cages() {
        let harness = std::process::id();
        cage.refuses(&format!("kill -0 {harness}"));
        cage.refuses("kill -9 1; kill -0 1 && exit 1");
    }
}

#[test]
fn privileges_are_gone_for_good() {
    for cage in cages() {
        let status = cage.allows("cat /proc/self/status").output;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(':').trim().to_owned()
        };
        for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            // Without the right to drop it, the last bound stays, but nothing can be gained.
            if set == "CapBnd" && !rustix::process::geteuid().is_root() {
                continue;
            }
            assert_eq!(field(set), "0000000000000000", "{} {set}", cage.backend);
        }
        assert_eq!(
            (field("NoNewPrivs"), field("Seccomp")),
            ("1".to_owned(), "2".to_owned()),
            "{}",
            cage.backend
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn dangerous_system_calls_are_refused() {
    if !Path::new("/usr/bin/perl").exists() {
        println!("not tested: it takes perl to make system calls from a command");
        return;
    }
    for cage in cages() {
        for (name, call, errno) in [
            ("ptrace", "101, 0, 0, 0, 0", EPERM),
            ("mount", "165, 0, 0, 0, 0, 0", EPERM),
            ("umount2", "166, 0, 0", EPERM),
            ("pivot_root", "155, 0, 0", EPERM),
            ("chroot", "161, 0", EPERM),
            ("open_tree", "428, 0, 0, 0", EPERM),
            ("move_mount", "429, 0, 0, 0, 0, 0", EPERM),
            ("fsopen", "430, 0, 0", EPERM),
            ("mount_setattr", "442, 0, 0, 0, 0, 0", EPERM),
            ("keyctl", "250, 0, 0, 0, 0, 0", EPERM),
            ("add_key", "248, 0, 0, 0, 0, 0", EPERM),
            ("bpf", "321, 0, 0, 0", EPERM),
            ("userfaultfd", "323, 0", EPERM),
            ("io_uring_setup", "425, 1, 0", EPERM),
            ("io_uring_enter", "426, 0, 0, 0, 0, 0, 0", EPERM),
            ("process_vm_readv", "310, 1, 0, 0, 0, 0, 0", EPERM),
            ("process_vm_writev", "311, 1, 0, 0, 0, 0, 0", EPERM),
            ("pidfd_getfd", "438, 0, 0, 0", EPERM),
            ("kexec_load", "246, 0, 0, 0, 0", EPERM),
            ("open_by_handle_at", "304, 0, 0, 0", EPERM),
            ("perf_event_open", "298, 0, 0, 0, 0, 0", EPERM),
            ("setns", "308, 0, 0", EPERM),
            ("unshare of users", "272, 0x10000000", EPERM),
            ("clone of users", "56, 0x10000011, 0, 0, 0, 0", EPERM),
            ("clone3", "435, 0, 0", ENOSYS),
            ("ptrace as x32", "0x40000000 + 521, 0, 0, 0, 0", ENOSYS),
            ("getpid as x32", "0x40000000 + 39", ENOSYS),
            ("raw socket", "41, 17, 3, 0", EPERM),
            ("socket to the hypervisor", "41, 40, 1, 0", EPERM),
        ] {
            let command = format!("perl -e 'my $r = syscall({call}); exit($r < 0 ? $! + 0 : 0)'");
            assert_eq!(cage.run(&command).code, errno, "{}: {name}", cage.backend);
        }
        let ran = cage.run("perl -e 'ioctl(STDIN, 0x5412, my $x = \"x\") and exit 0; exit $! + 0'");
        assert_eq!(ran.code, EPERM, "{}: putting words into a terminal", cage.backend);
        cage.refuses("unshare -Ur true");
        cage.refuses("unshare -m true");
    }
}

#[test]
fn a_fork_bomb_is_bounded() {
    for cage in cages() {
        let bomb = "perl -e 'for (1..20000) { my $p = fork; defined $p or exit 3; $p or do { sleep 1000; exit } } exit 0' > /dev/null 2>&1";
        match cage.try_run(bomb) {
            Ok(ran) => assert_eq!(ran.code, 3, "{}: {ran:?}", cage.backend),
            // Where the kernel counts no processes of root's, the warden does.
            Err(error) => assert!(error.to_string().contains("processes"), "{}: {error}", cage.backend),
        }
        cage.allows("true");
    }
}

#[test]
fn memory_and_files_are_bounded() {
    for cage in cages() {
        let ran = cage.refuses("perl -e '$x = \"a\" x (10 * 1024 ** 3); print \"got it\"'");
        assert!(!ran.output.contains("got it"), "{}: {ran:?}", cage.backend);
        cage.refuses("truncate -s 20G big");
        assert_eq!(cage.allows("ulimit -c").output, "0\n");
    }
}

#[test]
fn a_command_cannot_start_where_it_may_not_look() {
    for backend in crate::cage::backends() {
        let mut cage = Cage::new(backend);
        std::fs::write(cage.project.join("file"), "s3cr3t").unwrap();
        cage.bounds.writable.clear();
        cage.bounds.hidden.push(cage.project.clone());
        let started = cage.try_run("cat file");
        assert!(started.is_err() || started.is_ok_and(|ran| !ran.output.contains("s3cr3t")), "{backend}");
    }
}

#[test]
fn without_a_warden_nothing_runs_confined() {
    let cage = Cage::new(Backend::Landlock);
    let refused = ostler_tools::host::process::start(ostler_tools::host::process::Launch {
        program: "/bin/true".as_ref(),
        args: Vec::new(),
        cwd: &cage.project,
        env: &[],
        stdio: [std::process::Stdio::null(), std::process::Stdio::null(), std::process::Stdio::null()],
        confinement: &ostler_tools::host::Confinement::Within(cage.bounds.clone()),
        warden: None,
    });
    assert_eq!(refused.err().map(|error| error.kind()), Some(std::io::ErrorKind::Unsupported));
}
