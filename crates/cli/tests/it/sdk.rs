//! The public Python agent SDK drives the binary unchanged, and its helpers read our sessions.

use crate::stage::{Done, Stage};

/// Runs a Python program against the SDK, where one is installed.
#[track_caller]
fn python(stage: &Stage, program: &str) -> Option<String> {
    let Ok(python) = std::env::var("OSTLER_TEST_PYTHON") else {
        eprintln!(
            "skipped: OSTLER_TEST_PYTHON names no Python with the agent SDK (cargo xtask test sets it)"
        );
        return None;
    };
    let ours = stage.command(&[]);
    let mut command = std::process::Command::new(python);
    command.args(["-c", program]).env_clear().current_dir(stage.repo.path());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("OSTLER", env!("CARGO_BIN_EXE_ostler"));
    let done = Done::from(command.output().unwrap());
    done.check_ok();
    Some(done.stdout)
}

#[test]
fn a_query_with_a_permission_callback_edits_a_file() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ text = "Writing." }, { call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "from the model" } }]
        [[turn]]
        steps = [{ text = "Written." }]
        "#,
    );
    let program = r#"
import asyncio, os
from claude_agent_sdk import *

async def decide(tool, input, context):
    print("asked", tool)
    return PermissionResultAllow(updated_input={**input, "content": "changed by the host"})

async def main():
    options = ClaudeAgentOptions(cli_path=os.environ["OSTLER"], model="claude-sonnet-4-5", cwd=os.getcwd(), can_use_tool=decide)
    async def prompts():
        yield {"type": "user", "message": {"role": "user", "content": "go"}}
    async for message in query(prompt=prompts(), options=options):
        kind = type(message).__name__
        if isinstance(message, ResultMessage):
            print(kind, message.subtype, message.result, message.num_turns)
        elif isinstance(message, AssistantMessage):
            print(kind, type(message.content[0]).__name__)
        elif isinstance(message, SystemMessage):
            print(kind, message.subtype)
    print([s.first_prompt for s in list_sessions(directory=os.getcwd())])
    messages = get_session_messages(list_sessions(directory=os.getcwd())[0].session_id, directory=os.getcwd())
    print([m.type for m in messages])

asyncio.run(main())
"#;
    let Some(said) = python(&stage, program) else { return };
    let expected = "SystemMessage init\nAssistantMessage TextBlock\nAssistantMessage ToolUseBlock\nasked Write\n\
        AssistantMessage TextBlock\nResultMessage success Written. 2\n['go']\n\
        ['user', 'assistant', 'assistant', 'user', 'assistant']\n";
    assert_eq!(said, expected);
    assert_eq!(stage.repo.read("new.txt"), "changed by the host");
    stage.server.assert_valid_histories();
}
