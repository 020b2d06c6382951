//! The public Python SDK's helpers on our sessions, and us on theirs.

use super::TALK;
use crate::{sdk::python, stage::Stage};

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn stage() -> Stage {
    Stage::new(&TALK.repeat(2)).with_env("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
}

#[test]
fn helpers_list_read_rename_and_tag() {
    let stage = stage();
    stage.run(&["-p", "remember 42", "--session-id", ID]).check_ok();
    let program = r#"
import os
from claude_agent_sdk import *
id, here = "11111111-2222-4333-8444-555555555555", os.getcwd()
one = list_sessions(directory=here)[0]
print(one.session_id == id, one.summary, one.first_prompt, one.cwd == here)
print([m.type for m in get_session_messages(id, directory=here)])
rename_session(id, "Numbers", directory=here)
tag_session(id, "maths", directory=here)
one = list_sessions(directory=here)[0]
print(one.summary, one.tag)
"#;
    let Some(said) = python(&stage, program) else { return };
    assert_eq!(said, "True remember 42 remember 42 True\n['user', 'assistant']\nNumbers maths\n");
    let listed = stage.run(&["session", "list", "--json"]).check_ok().stdout.clone();
    assert!(listed.contains("\"title\":\"Numbers\"") && listed.contains("\"tag\":\"maths\""), "{listed}");
    // Far more than helpers look at: labels must follow to the end of the file.
    let long = "long ".repeat(40_000);
    stage.run(&["-p", &long[..120_000], "--resume", ID]).check_ok();
    let again = r"
import os
from claude_agent_sdk import *
one = list_sessions(directory=os.getcwd())[0]
print(one.summary, one.tag)
";
    assert_eq!(python(&stage, again).unwrap(), "Numbers maths\n");
}

#[test]
fn a_fork_made_by_helpers_is_resumed_and_removal_removes() {
    let stage = stage();
    stage.run(&["-p", "remember 42", "--session-id", ID]).check_ok();
    let program = r#"
import os
from claude_agent_sdk import *
id, here = "11111111-2222-4333-8444-555555555555", os.getcwd()
print(fork_session(id, directory=here).session_id)
delete_session(id, directory=here)
print([s.summary for s in list_sessions(directory=here)])
"#;
    let Some(said) = python(&stage, program) else { return };
    let (fork, listed) = said.split_once('\n').unwrap();
    assert_eq!(listed, "['remember 42 (fork)']\n");
    stage.run(&["-p", "what was it?", "--resume", fork]).check_ok();
    let last = stage.server.requests()[1].body_json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 3);
    assert!(
        stage.home.join(".claude/projects").is_dir() && stage.transcripts().is_empty(),
        "in its own file"
    );
    stage.server.assert_valid_histories();
}
