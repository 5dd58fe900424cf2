-- A CurationAttempt is one try of a CurationPipeline, made by the operator. It is never Degraded:
-- that it failed is what it is there to tell, and its pipeline says whether that matters. A red
-- attempt under a pipeline that went on and succeeded would call for help where none is needed, for
-- as long as its record is kept. The message has the cause.
local function tell(status, condition)
  local message = condition.message
  if message == nil or message == "" then
    message = condition.reason or condition.type
  end
  return { status = status, message = message }
end

if obj.status == nil or obj.status.conditions == nil then
  return { status = "Progressing", message = "Waiting for the operator" }
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to see the attempt" }
end

local found = nil
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Succeeded" then
    found = condition
  end
end

if found == nil then
  return { status = "Progressing", message = "Waiting for the operator" }
end
if found.status == "True" then
  return tell("Healthy", found)
end
if found.status == "False" then
  local cause = found.reason or "Unknown"
  local message = "Ended with " .. cause
  if found.message ~= nil and found.message ~= "" then
    message = message .. ": " .. found.message
  end
  return { status = "Healthy", message = message .. " (what follows is up to its pipeline)" }
end
-- Kueue has suspended its RayJob until the queue has room.
if found.reason == "Queued" then
  return tell("Suspended", found)
end
return tell("Progressing", found)
