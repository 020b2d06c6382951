//! Commands in the background: started, read, waited for, stopped, and never left behind.

use crate::{
    Scene,
    bash::{gone, pid, until},
    quiet, text,
};
use ostler_proto::{JobState, Json, ToolOutput};
use ostler_tools::{builtin::Manner, host::Room};
use serde_json::json;
use std::path::Path;

async fn start(scene: &Scene, command: &str) -> String {
    let input = json!({"command": command, "run_in_background": true, "description": "a job"});
    id(&scene.call("Bash", input).await.unwrap())
}

fn id(output: &ToolOutput) -> String {
    output.structured["backgroundTaskId"].as_str().unwrap().to_owned()
}

async fn read(scene: &Scene, id: &str, more: Json) -> String {
    let mut input = json!({"task_id": id});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let told = scene.ok("TaskOutput", input).await;
    told.split_once('\n').map_or(told.clone(), |(_, body)| body.to_owned())
}

#[tokio::test]
async fn a_job_runs_beside_and_is_read_piece_by_piece() {
    let scene = Scene::new();
    let command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3";
    let input = json!({"command": command, "run_in_background": true});
    let started = scene.call("Bash", input).await.unwrap();
    let id = id(&started);
    let told = text(&started);
    assert!(
        told.starts_with(&format!(
            "Command running in background with ID: {id}. Output is being written to: /"
        ))
    );
    let file = scene.jobs.list()[0].output.clone().unwrap();
    until(|| std::fs::read_to_string(&file).is_ok_and(|text| text == "one\n")).await;
    assert_eq!(read(&scene, &id, json!({"block": false})).await, "one");
    assert_eq!(read(&scene, &id, json!({"block": false})).await, "(no new output)");
    let waited = scene.call("TaskOutput", json!({"task_id": id, "timeout": 1})).await.unwrap();
    assert_eq!(waited.structured["retrieval_status"], "timeout");
    assert_eq!(waited.structured["task"]["status"], "running");
    scene.write("go", "");
    let ended = scene.call("BashOutput", json!({"bash_id": id})).await.unwrap();
    assert_eq!(ended.structured["task"]["exitCode"], 3);
    assert!(text(&ended).starts_with(&format!("{id}: failed (exit code 3) after ")), "{}", text(&ended));
    assert!(text(&ended).ends_with("\ntwo"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    assert!(!scene.jobs.has_unheard(), "whoever read of the end knows it");
    assert!(scene.ok("TaskOutput", json!({})).await.starts_with(&format!("{id}: failed")));
}

#[tokio::test]
async fn a_filter_shows_matching_lines_and_no_half_ones() {
    let scene = Scene::new();
    let command =
        "printf 'error 1\\nfine\\nerr'; touch ready; until [ -e go ]; do sleep 0.01; done; echo or 2";
    let id = start(&scene, command).await;
    until(|| scene.dir.join("ready").exists()).await;
    let file = scene.jobs.list()[0].output.clone().unwrap();
    until(|| std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with("err"))).await;
    assert_eq!(read(&scene, &id, json!({"block": false, "filter": "^err"})).await, "error 1");
    scene.write("go", "");
    assert_eq!(read(&scene, &id, json!({"filter": "^err"})).await, "error 2");
    let told = scene.fails("TaskOutput", json!({"task_id": id, "filter": "("})).await;
    assert!(told.contains("not a regular expression"), "{told}");
}

#[tokio::test]
async fn a_stopped_job_is_gone_with_all_it_started() {
    let scene = Scene::new();
    let command =
        "trap '' TERM; echo $$ >outer; (trap '' TERM; sleep 1000 & echo $! >inner; wait) & wait; sleep 1000";
    let id = start(&scene, command).await;
    until(|| pid(&scene, "outer").is_some() && pid(&scene, "inner").is_some()).await;
    let output = scene.call("KillShell", json!({"shell_id": id})).await.unwrap();
    assert_eq!(output.structured["task_type"], "local_bash");
    assert_eq!(output.structured["command"], command);
    gone(&scene, "outer").await;
    gone(&scene, "inner").await;
    assert_eq!(scene.jobs.list()[0].state, JobState::Stopped);
    assert!(!scene.jobs.has_unheard());
    assert!(scene.fails("TaskStop", json!({"task_id": id})).await.contains("was stopped before"));
    assert!(scene.fails("TaskStop", json!({"task_id": "bx"})).await.contains(&format!("'bx' ({id})")));
}

#[tokio::test]
async fn what_runs_out_of_time_goes_on_as_a_job() {
    let scene = Scene::new();
    scene.write("wait.sh", "echo started; until [ -e go ]; do sleep 0.01; done; echo ended\n");
    let output =
        scene.call("Bash", json!({"command": "sh wait.sh && echo ok", "timeout": 300})).await.unwrap();
    let told = text(&output);
    assert!(told.starts_with("Command did not end within 300 ms and was moved to the background"), "{told}");
    assert!(told.ends_with("\nIts output so far:\nstarted") && !output.is_error, "{told}");
    let file = scene.jobs.list()[0].output.clone().unwrap();
    until(|| std::fs::read_to_string(&file).is_ok_and(|text| text == "started\n")).await;
    scene.write("go", "");
    assert_eq!(read(&scene, &id(&output), json!({})).await, "started\nended\nok");
}

#[tokio::test]
async fn some_commands_do_not_go_on() {
    for command in ["sleep 9; true", "git --version; sh -c 'sleep 9'", "while :; do sleep 1; done"] {
        let scene = Scene::new();
        let output = scene.call("Bash", json!({"command": command, "timeout": 200})).await.unwrap();
        assert!(text(&output).starts_with("Command timed out after 200 ms and was killed"), "{command}");
        assert!(scene.jobs.list().is_empty());
    }
}

#[tokio::test]
async fn a_flood_dies_at_its_timeout() {
    let scene = Scene::with(Manner::default(), Room { head: 100_000, tail: 100_000 });
    let output = scene.call("Bash", json!({"command": "yes", "timeout": 600})).await.unwrap();
    assert!(text(&output).starts_with("Command timed out after 600 ms and was killed\ny\ny\n"));
    assert!(scene.jobs.list().is_empty());
    let [(_, size)] = scene.kept()[..] else { panic!("{:?}", scene.kept()) };
    assert!(size < 300_000, "{size}");
}

#[tokio::test]
async fn a_dropped_call_leaves_no_file() {
    let scene = Scene::new();
    let command = "echo $$ >shell; head -c 1000000 /dev/zero | tr '\\0' x; touch done; sleep 1000; true";
    let plan = scene.tools.find("Bash").unwrap().plan(json!({"command": command}), &scene.cx).await.unwrap();
    let mut running = plan.effect.run(quiet());
    let written = async {
        while !scene.dir.join("done").exists() || scene.kept().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        output = &mut running => panic!("it ended: {output:?}"),
        () = written => {}
    }
    drop(running);
    gone(&scene, "shell").await;
    until(|| scene.kept().is_empty()).await;
}

#[tokio::test]
async fn changes_are_told_and_unheard_ends_remembered() {
    let scene = Scene::new();
    let id = start(&scene, "true").await;
    let first = scene.jobs.next_change().await;
    assert_eq!(
        (first.id.0.as_str(), first.state, first.description.as_str()),
        (id.as_str(), JobState::Running, "a job")
    );
    assert_eq!(first.call.as_str(), "call");
    assert_eq!(scene.jobs.next_change().await.state, JobState::Exited(0));
    assert!(scene.jobs.has_unheard());
    assert_eq!(scene.jobs.take_unheard().len(), 1);
    assert!(!scene.jobs.has_unheard() && scene.jobs.take_unheard().is_empty());
}

#[tokio::test]
async fn a_job_that_cannot_start_says_why() {
    let scene = Scene::new();
    let tool = scene.tools.find("Bash").unwrap();
    scene.write("sub/f", "");
    let mut cx = scene.cx.clone();
    cx.cwd = scene.dir.join("sub");
    let plan = tool.plan(json!({"command": "true", "run_in_background": true}), &cx).await.unwrap();
    std::fs::remove_dir_all(scene.dir.join("sub")).unwrap();
    let id = id(&plan.effect.run(quiet()).await.unwrap());
    let told = read(&scene, &id, json!({})).await;
    assert!(told.starts_with("cannot start the command in"), "{told}");
    assert_eq!(scene.jobs.list()[0].state, JobState::Lost);
}

#[tokio::test]
async fn there_is_an_end_to_how_many_run() {
    let scene = Scene::new();
    for _ in 0..16 {
        start(&scene, "sleep 1000").await;
    }
    let input = json!({"command": "touch never", "run_in_background": true});
    assert!(scene.fails("Bash", input).await.contains("too many commands"));
    assert_eq!(scene.jobs.stop_all().await.len(), 16);
    assert!(scene.jobs.list().iter().all(|job| job.state == JobState::Stopped));
    assert!(!scene.dir.join("never").exists());
}

#[tokio::test]
async fn all_die_with_the_table() {
    let scene = Scene::new();
    start(&scene, "echo $$ >shell; trap '' TERM; sleep 1000 & echo $! >child; wait; wait").await;
    until(|| pid(&scene, "child").is_some()).await;
    let (shell, child) = (pid(&scene, "shell").unwrap(), pid(&scene, "child").unwrap());
    drop(scene);
    for pid in [shell, child] {
        until(|| match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Err(_) => true,
            Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        })
        .await;
    }
    until(|| !Path::new(&format!("/proc/{shell}")).exists()).await;
}
