/** The last lines of a run: what failed and why, so that a log that was cut still has it. */

import type { Reporter, TestCase, TestModule } from "vitest/node";

type Failed = { name: string; errors: readonly { message?: string }[] };

/** Of a message so much: those that show a whole screen have it further up. */
const MOST_LINES = 12;

export class Failures implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly { message?: string }[]): void {
    const failed = modules.flatMap(failedIn);
    if (unhandled.length > 0) failed.push({ name: "outside of tests", errors: unhandled });
    const lines = failed.flatMap(({ name, errors }) => [`FAILED ${name}`, ...errors.flatMap(shown)]);
    if (lines.length > 0) console.log(`\n${lines.join("\n")}\n${failed.length} failed`);
  }
}

/** The tests of a file that failed, and the groups and files that could not be set up. */
function failedIn(module: TestModule): Failed[] {
  const groups = [...module.children.allSuites()].map((suite) => ({ name: `${module.relativeModuleId} > ${suite.fullName}`, errors: suite.errors() }));
  const tests = [...module.children.allTests("failed")].map((test: TestCase) => ({ name: `${module.relativeModuleId} > ${test.fullName}`, errors: test.result().errors ?? [] }));
  const all = [{ name: module.relativeModuleId, errors: module.errors() }, ...groups, ...tests];
  return all.filter(({ errors }) => errors.length > 0);
}

function shown({ message }: { message?: string }): string[] {
  const lines = (message ?? "no message").replace(/\u001b\[[0-9;]*m/g, "").split("\n");
  return lines.slice(0, MOST_LINES).map((line) => `  ${line.slice(0, 300)}`);
}
