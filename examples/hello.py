"""The smallest workflow: one step, one job, one result."""

from penstock import Context, Penstock, Workflow

hello = Workflow("hello")


@hello.step
async def greet(name: str, ctx: Context) -> str:
    return f"Hello, {name}!"


app = Penstock(workflows=[hello])

if __name__ == "__main__":
    print(app.run(hello, "world").result)
