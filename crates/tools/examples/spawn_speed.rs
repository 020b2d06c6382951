//! How long it takes to start `true` and see its end: plainly, in custody, and confined in each way. Give the
//! number of rounds; the warden is `custody-stand-in` of the same build.
#![expect(clippy::disallowed_methods, reason = "it makes and removes a folder of its own")]
#![expect(clippy::print_stdout, reason = "it reports what it measured")]
#![expect(clippy::expect_used, reason = "without its parts there is nothing to measure")]

use ostler_tools::host::{
    Bounds, Confinement, Network, Warden,
    process::{Launch, start},
};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let own = std::env::current_exe().expect("this program has a file");
    let folder = own.parent().and_then(Path::parent).expect("it lies in the folder of examples");
    let program = folder.join("custody-stand-in");
    assert!(program.exists(), "build {} first", program.display());
    let project = std::env::temp_dir().join(format!("ostler-spawn-speed-{}", std::process::id()));
    std::fs::create_dir_all(project.join(".git/hooks")).expect("a folder for the project");
    measure("plain", rounds, None, &Confinement::Free, &project).await;
    let custody = Warden::new(program.clone());
    measure("custody", rounds, Some(&custody), &Confinement::Free, &project).await;
    for (backend, outcome) in custody.survey().tried {
        let Ok(()) = outcome else { continue };
        let warden = Warden::with_backend(program.clone(), backend);
        let bounds = Bounds { writable: vec![project.clone()], ..Bounds::default() };
        measure(backend.name(), rounds, Some(&warden), &Confinement::Within(bounds.clone()), &project).await;
        let names =
            [".git/hooks", ".git/config", ".claude", ".ostler", ".mcp.json", ".vscode", ".husky", ".envrc"];
        let frozen: Vec<PathBuf> = names.iter().map(|name| project.join(name)).collect();
        let full = Confinement::Within(Bounds { frozen, hidden: vec!["/etc/ssl/private".into()], ..bounds });
        measure(&format!("{backend}, 8 frozen"), rounds, Some(&warden), &full, &project).await;
        let hosts = Network::Hosts(vec!["example.org".into()]);
        let listed = Confinement::Within(Bounds {
            network: hosts,
            writable: vec![project.clone()],
            ..Bounds::default()
        });
        measure(&format!("{backend}, hosts"), rounds, Some(&warden), &listed, &project).await;
    }
    std::fs::remove_dir_all(&project).expect("the folder is ours");
}

async fn measure(name: &str, rounds: usize, warden: Option<&Warden>, confinement: &Confinement, cwd: &Path) {
    let mut times = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let group = start(Launch {
            program: "/bin/true".as_ref(),
            args: Vec::new(),
            cwd,
            env: &[],
            stdio: [Stdio::null(), Stdio::null(), Stdio::null()],
            confinement,
            warden,
        })
        .expect("it starts");
        group.ended().await.expect("it ends");
        times.push(begin.elapsed());
        group.finish().expect("it succeeds");
        ends.push(begin.elapsed());
    }
    let at = |times: &mut Vec<Duration>, share: usize| {
        times.sort_unstable();
        times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0
    };
    // The least says most on a busy machine.
    println!(
        "{name:<24} ended: least {:6.2} ms, p50 {:6.2}, p95 {:6.2}   all gone: least {:6.2} ms, p50 {:6.2}",
        at(&mut times, 0),
        at(&mut times, 50),
        at(&mut times, 95),
        at(&mut ends, 0),
        at(&mut ends, 50)
    );
}
