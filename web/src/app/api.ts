/** Requests to the server. Long work is a job: polled until it ends, and cancellable. */

export interface Job<T = unknown> {
  job: string;
  state: "waiting" | "running" | "done" | "failed" | "stopped";
  says: string;
  done: number;
  of: number;
  error: string;
  notes: string[];
  result: T | null;
}

/** An error of the server, with its message. */
export class Refused extends Error {}

/** The job was cancelled. */
export class Stopped extends Error {}

async function fetchChecked(path: string, how: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { ...how, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Refused("The server does not answer: is regard serve still running?");
  }
  if (answer.ok) return answer;
  const said = (await answer.json().catch(() => ({}))) as { error?: string };
  if (answer.status === 409) throw new Stopped(said.error);
  throw new Refused(said.error ?? `The server answered ${answer.status}.`);
}

export async function requestJson<T>(path: string, body?: unknown, method?: string): Promise<T> {
  const how: RequestInit = { method: method ?? (body === undefined ? "GET" : "POST") };
  if (body instanceof Blob) how.body = body;
  else if (body !== undefined) {
    how.body = JSON.stringify(body);
    how.headers = { "content-type": "application/json" };
  }
  return (await (await fetchChecked(path, how)).json()) as T;
}

/** Start a job and wait for its result; onProgress gets each state of the job, and null at the end. */
export async function follow<T>(path: string, body: unknown, onProgress: (job: Job<T> | null) => void): Promise<T> {
  try {
    let job = await requestJson<Job<T>>(path, body);
    for (;;) {
      if (job.state === "done") {
        if (job.notes.length) onProgress(job); // such as: the text was truncated
        return job.result!;
      }
      if (job.state === "failed") throw new Refused(job.error);
      if (job.state === "stopped") throw new Stopped(job.says);
      onProgress(job);
      job = await requestJson<Job<T>>(`/api/jobs/${job.job}`);
    }
  } finally {
    onProgress(null);
  }
}

export const stop = (job: Job): Promise<unknown> => requestJson(`/api/jobs/${job.job}`, undefined, "DELETE");

/** Binary payload; 202 means that it is still being computed. */
export async function bytes(path: string): Promise<ArrayBuffer> {
  for (;;) {
    const answer = await fetchChecked(path);
    if (answer.status !== 202) return answer.arrayBuffer();
  }
}
