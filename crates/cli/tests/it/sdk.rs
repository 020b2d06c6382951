//! The public Python agent SDK drives the binary unchanged, and its helpers read our sessions.

use crate::stage::{Done, Stage};

/// Runs a Python program against the SDK, where one is installed.
#[track_caller]
pub(crate) fn python(stage: &Stage, program: &str) -> Option<String> {
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

#[test]
fn a_client_asks_what_fills_the_window() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'hello' }]");
    let program = r#"
import asyncio, os
from claude_agent_sdk import *

async def main():
    options = ClaudeAgentOptions(cli_path=os.environ["OSTLER"], model="claude-sonnet-4-5", cwd=os.getcwd(), system_prompt={"type": "preset", "preset": "claude_code"})
    async with ClaudeSDKClient(options=options) as client:
        await client.query("hi")
        async for _ in client.receive_response():
            pass
        usage = await client.get_context_usage()
        print([part["name"] for part in usage["categories"]])
        print(usage["model"], usage["rawMaxTokens"], 0 < usage["percentage"] < 100, usage["totalTokens"] < usage["maxTokens"])
        print(len(usage["gridRows"]), len(usage["gridRows"][0]), usage["isAutoCompactEnabled"], usage["mcpTools"], usage["memoryFiles"], usage["agents"])
        print(usage["messageBreakdown"]["userMessageTokens"] > 0, sorted(tool["name"] for tool in usage["systemTools"])[0])

asyncio.run(main())
"#;
    let Some(said) = python(&stage, program) else { return };
    let expected = "['System prompt', 'System tools', 'Messages', 'Free space', 'Reserved for the answer']\n\
        claude-sonnet-4-5 200000 True True\n10 10 True [] [] []\nTrue Bash\n";
    assert_eq!(said, expected);
}

#[test]
fn callbacks_are_hooks_of_the_session() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Write", input = { file_path = "{{cwd}}/one.txt", content = "x" } }, { call = "Write", input = { file_path = "{{cwd}}/two.txt", content = "x" } }]
        [[turn]]
        steps = [{ text = "Done." }]
        "#,
    );
    let program = r#"
import asyncio, os
from claude_agent_sdk import *

def tell(name):
    async def hook(input, tool_use_id, context):
        print(name, input["hook_event_name"], input.get("tool_name"), tool_use_id is not None)
        return {}
    return hook

async def guard(input, tool_use_id, context):
    is_one = input["tool_input"]["file_path"].endswith("one.txt")
    decision = "deny" if is_one else "allow"
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "only two"}}

async def broken(input, tool_use_id, context):
    raise RuntimeError("boom")

async def main():
    hooks = {
        "UserPromptSubmit": [HookMatcher(hooks=[tell("prompt")])],
        "PreToolUse": [HookMatcher(matcher="Write", hooks=[guard], timeout=30, on_failure="block")],
        "PostToolUse": [HookMatcher(matcher="Write|Edit", hooks=[tell("after"), broken])],
        "Stop": [HookMatcher(hooks=[tell("stop")])],
    }
    options = ClaudeAgentOptions(cli_path=os.environ["OSTLER"], model="claude-sonnet-4-5", cwd=os.getcwd(), hooks=hooks)
    async for message in query(prompt="go", options=options):
        if isinstance(message, ResultMessage):
            print(message.subtype, [d["tool_name"] if isinstance(d, dict) else d.tool_name for d in message.permission_denials or []])

asyncio.run(main())
"#;
    let Some(said) = python(&stage, program) else { return };
    let expected = "prompt UserPromptSubmit None False\nafter PostToolUse Write True\nstop Stop None False\nsuccess ['Write']\n";
    assert_eq!(said, expected);
    assert!(!stage.repo.has("one.txt") && stage.repo.has("two.txt"));
    stage.server.assert_valid_histories();
}

#[test]
fn files_are_rewound_to_the_prompts_a_client_saw() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "1" } }, { call = "Bash", input = { command = "echo 1 > shell.txt" } }]
        [[turn]]
        steps = [{ text = "one" }]
        [[turn]]
        steps = [{ call = "Bash", input = { command = "echo 2 > shell.txt; rm new.txt b.txt" } }]
        [[turn]]
        steps = [{ text = "two" }]
        "#,
    );
    let program = r#"
import asyncio, os
from claude_agent_sdk import *

def show(*words):
    names = [name for name in ("b.txt", "new.txt", "shell.txt") if os.path.exists(name)]
    print(*words, *[name + "=" + open(name).read().strip() for name in names])

def options(**more):
    return ClaudeAgentOptions(cli_path=os.environ["OSTLER"], model="claude-sonnet-4-5", cwd=os.getcwd(),
        allowed_tools=["Bash", "Write"], extra_args={"replay-user-messages": None}, **more)

async def refused(client, uuid):
    try:
        await client.rewind_files(uuid)
    except Exception as error:
        print("refused:", error)

async def main():
    prompts, session = [], None
    async with ClaudeSDKClient(options=options(enable_file_checkpointing=True)) as client:
        for text in ("go", "on"):
            await client.query(text)
            async for message in client.receive_response():
                if isinstance(message, UserMessage) and message.uuid and isinstance(message.content, str):
                    prompts.append(message.uuid)
                if isinstance(message, ResultMessage):
                    session = message.session_id
        show("after", len(prompts))
        await client.rewind_files(prompts[1])
        show("second")
        await client.rewind_files(prompts[0])
        show("first")
        await refused(client, "00000000-0000-4000-8000-000000000000")
    os.system(os.environ["OSTLER"] + " rewind --undo > undone")
    show("undone")
    async with ClaudeSDKClient(options=options(enable_file_checkpointing=True, resume=session)) as client:
        await client.rewind_files(prompts[0])
        show("resumed")

asyncio.run(main())
"#;
    let Some(said) = python(&stage, program) else { return };
    let expected = "after 2 shell.txt=2\nsecond b.txt=bee new.txt=1 shell.txt=1\nfirst b.txt=bee\n\
        refused: No file checkpoint found for this message.\nundone b.txt=bee new.txt=1 shell.txt=1\n\
        resumed b.txt=bee\n";
    assert_eq!(said, expected);
}
