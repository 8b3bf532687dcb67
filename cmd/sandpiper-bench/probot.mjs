// Probot as a server of webhooks: it checks the signature, hands the event to an App that does nothing, and stores nothing.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createNodeMiddleware, createProbot } from "probot";

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  privateKeyEncoding: { type: "pkcs1", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});
const probot = createProbot({ overrides: { appId: 1, privateKey, secret: process.env.WEBHOOK_SECRET, logLevel: "fatal" } });
const app = (a) => a.on("issues.labeled", () => {});
const server = createServer(await createNodeMiddleware(app, { probot, webhooksPath: "/webhook" }));
server.listen(0, "127.0.0.1", () => console.log("127.0.0.1:" + server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
